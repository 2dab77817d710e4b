from chunkside.core.fields import Fields
from chunkside.core.response import ResponseHead


def test_an_answer_is_framed_unless_it_is_said_not_to_be():
    assert ResponseHead(200, Fields(), None).is_framed
    assert not ResponseHead(200, Fields(), None, is_framed=False).is_framed

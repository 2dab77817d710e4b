"""What totals and rates are made of."""

from chunkside.tools.stats import Interval, Totals, stats_rows, totals_of

PAGE = """\
# HELP chunkside_requests_total Requests.
# TYPE chunkside_requests_total counter
chunkside_requests_total{class="chunk",method="GET",result="hit",route="/"} 6.0
chunkside_requests_total{class="metadata",method="GET",result="hit",route="/a,b"} 1.0
chunkside_requests_total{class="chunk",method="GET",result="negative_hit",route="/"} 2.0
chunkside_requests_total{class="chunk",method="GET",result="miss",route="result=\\"hit\\""} 1e+00
chunkside_requests_created{class="chunk",method="GET",result="hit",route="/"} 1.7e+09
chunkside_upstream_requests_total{class="chunk",code="200",method="GET",route="/"} 3.0
chunkside_response_bytes_total{result="hit",route="/"} 1.2e+06
chunkside_response_bytes_total{result="miss",route="/"} 4.0
chunkside_upstream_received_bytes_total{route="/"} 200000.0
not a sample
"""
STATS: dict[str, object] = {"bodies": 3, "markers": 2, "current_size": 512, "max_size": 1024}


def totals() -> Totals:
    return totals_of(STATS, PAGE)


def test_results_and_bytes_are_added_up_over_routes() -> None:
    told = totals()
    assert (told.requests["hit"], told.requests["negative_hit"], told.requests["miss"]) == (7, 2, 1)
    assert (told.total_requests, told.upstream_requests, told.saved_requests) == (10, 3, 7)
    assert (told.response_bytes, told.saved_bytes) == (1_200_004, 1_000_004)


def test_json_has_what_stats_has_and_what_was_saved() -> None:
    members = totals().members()
    assert members.items() >= STATS.items()
    assert (members["saved_requests"], members["saved_bytes"]) == (7, 1_000_004)


def test_rates_are_differences_by_time() -> None:
    before = totals_of(STATS, "")
    rates = Interval(2.0, before).rates(totals())
    assert (rates["requests"], rates["requests_hit"], rates["upstream_requests"]) == (5, 3.5, 1.5)


def test_after_a_restart_rates_count_from_zero() -> None:
    rates = Interval(1.0, totals()).rates(totals_of(STATS, PAGE.replace("6.0", "2.0")))
    assert rates["requests_hit"] == 3.0
    assert all(rate >= 0 for rate in rates.values())


def test_a_terminal_has_words_and_shares_and_a_pipe_plain_numbers() -> None:
    shown = {row[0].strip(): row[1:] for row in stats_rows(totals(), None, is_terminal=True)}
    assert shown["answered with stored bytes"] == ("7", "70.0%")
    assert shown["bytes saved"] == ("976.6 KiB", "83.3%")
    assert shown["bytes held"] == ("512", "50.0%")
    piped = {row[0].strip(): row[1:] for row in stats_rows(totals(), None, is_terminal=False)}
    assert piped["bytes saved"] == ("1000004", "83.3%")


def test_with_rates_there_is_one_more_column() -> None:
    rows = stats_rows(
        totals(), Interval(1.0, totals_of(STATS, "")).rates(totals()), is_terminal=True
    )
    assert rows[0][-1] == "per second"
    assert {row[0].strip(): row[-1] for row in rows}["requests at the origin"] == "3.0"
    assert len({len(row) for row in rows}) == 1


def test_nothing_was_asked_for_yet() -> None:
    assert all(len(row) >= 2 for row in stats_rows(totals_of({}, ""), None, is_terminal=True))

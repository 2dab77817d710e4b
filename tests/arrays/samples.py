"""Metadata documents, as small as they can be."""

import json


def zarr3(shape=(10, 20), chunks=(5, 5), **members):
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
    return json.dumps(document | members).encode()


def zarr2(shape=(10, 20), chunks=(5, 5), **members):
    document = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": "<i2",
        "fill_value": 0,
        "order": "C",
        "compressor": None,
        "filters": None,
    }
    return json.dumps(document | members).encode()


def n5(dimensions=(20, 10), blocks=(5, 5), **members):
    document = {"dimensions": list(dimensions), "blockSize": list(blocks), "dataType": "int16"}
    return json.dumps(document | members).encode()

"""Chunk grids of arrays: what a metadata document says, and the keys of the chunks.

    consolidated the arrays that a group tells of.
    document     reads `.zarray`, `zarr.json`, `attributes.json`: what is an array, and what is not.
    grid         shape, grid and keys of one array; a region of it, chunk by chunk.
    data_types   bytes per element.

Pure: it knows no store and no framework. Documents may be hostile: whatever they say is bounded
here, and what can be very many (chunks) is only ever counted or walked, never held.
"""

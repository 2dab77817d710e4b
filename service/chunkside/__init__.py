"""Chunkside: a caching sidecar for readers of chunked arrays over HTTP.

The map:

    core        decides. Pure: no await, no clock, no I/O. `policy` is where a 404 is decided.
    arrays      chunk grids of Zarr and N5 and their keys. As pure as core.
    gateway     carries decisions out through ports, and knows nothing of HTTP libraries or disks.
    server      the data port and the admin port (aiohttp.web); `head` and `handler` are where
                bytes leave.
    upstream    the way to the origin (aiohttp's client).
    store       bodies in Arrow files, memory-mapped, and the stamps that keep them honest;
                `arrow_file` is where Arrow is.
    metrics     counters, from one result per request; gauges: what a scrape reads of the state.
    logs        how lines are written; notices: what is said at the start and at the end.
    settings    the only reader of the environment.
    routing     what each route has of its own, built from its settings.
    console     what the admin port shows of the sidecar, and does to it.
    status      what the status page tells, from the metrics and the last minutes.
    stopping    what signals say of when to stop.
    upkeep      a disk that fails, a table of stamps lost: mended, and said in the log.
    child       a sidecar as a process of its own, for what starts one: run and demo.
    app         puts it together, and owns the order of starting and stopping.
    cli         the commands; tools: what those do that run no sidecar, most of them by asking one.

The one rule: an edge touches the world and knows no other edge; what it learns walks through the
gateway to the core, and decisions walk back.
"""

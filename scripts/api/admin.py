"""Names of things that are there, so that schemathesis comes further than 404."""

import schemathesis

NAMES = {
    "/hubs/{name}": "news",
    "/queues/{name}": "work",
    "/schedules/{name}": "beat",
    "/flows/{name}": "send",
    "/upstreams/{name}": "origin",
    "/traffic/{route}": "all",
    "/dashboard/{file}": "app.js",
}


@schemathesis.serializer("application/zip", "application/gzip")
def archive(ctx, value):
    """Archives are bytes that are none, mostly."""
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Every other request names what is there."""
    map_path_parameters.count += 1
    path = context.operation.path
    for prefix, name in NAMES.items():
        if path.startswith(prefix) and path_parameters and map_path_parameters.count % 2 == 0:
            key = prefix[prefix.index("{") + 1 : -1]
            path_parameters[key] = name
    return path_parameters


map_path_parameters.count = 0

"""Lines of JSON, which schemathesis cannot write or read by itself."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def write_lines(ctx, value):
    items = value if isinstance(value, list) else [value]
    return "".join(json.dumps(item) + "\n" for item in items).encode("utf-8", "surrogatepass")


@schemathesis.deserializer("application/x-ndjson")
def read_lines(ctx, response):
    return response.content.decode("utf-8")

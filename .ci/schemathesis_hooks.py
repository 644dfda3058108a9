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


@schemathesis.hook
def map_query(ctx, query):
    """An answer without an end cannot be waited for; the tests of the repository read those."""
    kept = {name: value for name, value in (query or {}).items() if name not in ("feed", "wait")}
    return kept

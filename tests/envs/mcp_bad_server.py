"""An MCP server that misbehaves as its argument says; runs in the sandbox by itself."""

import json
import os
import sys
import time

how = sys.argv[1]


def say(row):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **row}) + "\n")
    sys.stdout.flush()


def tool(name, schema):
    return {"name": name, "description": name, "inputSchema": schema}


PLAIN = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [tool("echo", PLAIN), tool("hang", {"type": "object"}), tool("die", {"type": "object"}),
         tool("flood", {"type": "object"}), tool("exec", PLAIN), tool("count", {"type": "object"}),
         tool("sulk", {"type": "object"}), tool("cuckoo", {"type": "object"})]  # fmt: skip
if how == "schemas":
    TOOLS += [
        tool("far", {"type": "object", "properties": {"a": {"$ref": "http://elsewhere/x"}}}),
        tool("loop", {"type": "object", "allOf": [{"$ref": "#"}]}),
        tool("boom", {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}}),
        tool("echo", PLAIN),
        tool("bad name!", PLAIN),
        {"name": "list", "inputSchema": []},
        7,
    ]
if how == "die":
    sys.exit("no such configuration")
if how == "flood":
    while True:
        sys.stdout.write("x" * 65536)
if how == "chatter":
    while True:
        print("starting up ...")
count = 0
for line in sys.stdin:
    row = json.loads(line)
    if "id" not in row:
        continue
    method, ident = row.get("method"), row["id"]
    if how == "silent":
        time.sleep(3600)
    if method == "initialize":
        if how == "noise":
            print("Listening on stdio, have fun!")
        say({"id": ident, "result": {"protocolVersion": "2025-06-18", "capabilities": {}}})
    elif method == "ping":
        say({"id": ident, "result": {}})
    elif method == "tools/list":
        if how == "nonsense":
            say({"id": ident, "result": {"tools": "many"}})
            continue
        say({"id": ident, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        name = row["params"]["name"]
        if name == "hang":
            time.sleep(3600)
        elif name == "sulk":  # this call gets no answer, others do
            continue
        elif name == "die":
            os._exit(9)
        elif name == "flood":
            while True:
                sys.stdout.write("y" * 65536)
        elif name == "cuckoo":
            say({"id": ident, "result": 7})
        else:
            count += 1
            text = str(count) if name == "count" else row["params"]["arguments"].get("text", "")
            content = [{"type": "text", "text": text}]
            say({"id": ident, "result": {"content": content, "isError": False}})
    else:
        say({"id": ident, "error": {"code": -32601, "message": "unknown"}})

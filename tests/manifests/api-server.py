#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What helm needs of an API server: discovery, and objects that can be made, read, patched, listed and deleted.

    api-server.py DIRECTORY KIND...     such as v1/Secret and admissionregistration.k8s.io/v1/MutatingAdmissionPolicy

It serves these kinds, keeps the objects in DIRECTORY, and prints its port. An object that was written in one version of
its group is read in every version that is served, as in a real cluster. It validates nothing, and a patch of whatever
kind is merged: the tests look at which objects helm makes, not at how the server would judge them.
"""
import base64
import http.server
import json
import os
import sys
import urllib.parse
import uuid

DIRECTORY = sys.argv[1]
NAMESPACED = {"Secret", "Pod"}
SERVED = {}
for served in sys.argv[2:]:
    group_version, kind = served.rsplit("/", 1)
    SERVED.setdefault(group_version, []).append(kind)


def plural(kind):
    kind = kind.lower()
    return kind[:-1] + "ies" if kind.endswith("y") else kind + "s"


def resources(group_version):
    listed = [
        {"name": plural(kind), "singularName": kind.lower(), "namespaced": kind in NAMESPACED, "kind": kind,
         "verbs": ["create", "delete", "get", "list", "patch", "update"]}
        for kind in SERVED[group_version]
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def groups():
    found = {}
    for group_version in SERVED:
        if "/" in group_version:
            group, version = group_version.split("/")
            found.setdefault(group, []).append({"groupVersion": group_version, "version": version})
    listed = [{"name": name, "versions": all, "preferredVersion": all[0]} for name, all in found.items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def merge(into, patch):
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def fields(message):
    """The numbers and values of a protocol buffer message that has only numbers, texts and messages."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        value = number()
        if key & 7 == 2:
            at, value = at + value, message[at:at + value]
        found.append((key >> 3, value))
    return found


def secret(message):
    """helm writes its Secrets as protocol buffers: k8s.io/api/core/v1/generated.proto has the numbers."""
    given = dict(fields(message.removeprefix(b"k8s\0")))
    found = {"apiVersion": "v1", "kind": "Secret", "data": {}, "metadata": {"labels": {}}}
    for number, value in fields(given[2]):
        if number == 1:
            for place, one in fields(value):
                if place in (1, 3):
                    found["metadata"]["name" if place == 1 else "namespace"] = one.decode()
                elif place == 11:
                    label = dict(fields(one))
                    found["metadata"]["labels"][label[1].decode()] = label.get(2, b"").decode()
        elif number == 2:
            entry = dict(fields(value))
            found["data"][entry[1].decode()] = base64.b64encode(entry[2]).decode()
        elif number == 3:
            found["type"] = value.decode()
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, code=200):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code, reason):
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
        self.answer({**status, "message": f"{reason}: {self.path}"}, code)

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if data.startswith(b"k8s\0"):
            return secret(data)
        return json.loads(data) if data.startswith(b"{") else {}

    def place(self):
        """The version, kind and file or files that the path names; None where it is not served."""
        url = urllib.parse.urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        head, rest = (1, parts[2:]) if parts[0] == "api" else (2, parts[3:])
        group_version = "/".join(parts[1:1 + head])
        namespace = "-"
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kinds = {plural(kind): kind for kind in SERVED.get(group_version, [])}
        if not rest or rest[0] not in kinds:
            return None
        group = group_version.rsplit("/", 1)[0] if head == 2 else "core"
        directory = os.path.join(DIRECTORY, group, rest[0], namespace)
        return group_version, kinds[rest[0]], directory, (rest + [None])[1], urllib.parse.parse_qs(url.query)

    def read(self, path, group_version):
        with open(path) as file:
            return {**json.load(file), "apiVersion": group_version}

    def write(self, path, given, code):
        given.setdefault("metadata", {}).setdefault("uid", str(uuid.uuid4()))
        given["metadata"]["resourceVersion"] = str(int(given["metadata"].get("resourceVersion", 0)) + 1)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w") as file:
            json.dump(given, file)
        os.rename(path + ".part", path)
        self.answer(given, code)

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path.strip("/")
        if path == "version":
            return self.answer({"major": "1", "minor": "36", "gitVersion": "v1.36.2"})
        if path == "api":
            return self.answer({"kind": "APIVersions", "versions": ["v1"]})
        if path == "apis":
            return self.answer(groups())
        if path.removeprefix("apis/").removeprefix("api/") in SERVED:
            return self.answer(resources(path.removeprefix("apis/").removeprefix("api/")))
        found = self.place()
        if not found:
            return self.refuse(404, "NotFound")
        group_version, kind, directory, name, query = found
        if name:
            file = os.path.join(directory, name)
            return self.answer(self.read(file, group_version)) if os.path.exists(file) else self.refuse(404, "NotFound")
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        objects = [self.read(os.path.join(directory, one), group_version) for one in names]
        wanted = dict(one.split("=") for one in query.get("labelSelector", [""])[0].split(",") if one)
        chosen = [one for one in objects if wanted.items() <= one["metadata"].get("labels", {}).items()]
        self.answer({"kind": f"{kind}List", "apiVersion": group_version, "metadata": {}, "items": chosen})

    def do_POST(self):
        given, found = self.body(), self.place()
        if not found:
            return self.refuse(404, "NotFound")
        path = os.path.join(found[2], given["metadata"]["name"])
        self.refuse(409, "AlreadyExists") if os.path.exists(path) else self.write(path, given, 201)

    def do_PUT(self):
        given, found = self.body(), self.place()
        self.write(os.path.join(found[2], found[3]), given, 200) if found else self.refuse(404, "NotFound")

    def do_PATCH(self):
        given, found = self.body(), self.place()
        if not found:
            return self.refuse(404, "NotFound")
        path = os.path.join(found[2], found[3])
        before = self.read(path, found[0]) if os.path.exists(path) else {}
        merge(before, given)
        self.write(path, before, 200)

    def do_DELETE(self):
        self.body()
        found = self.place()
        path = found and found[3] and os.path.join(found[2], found[3])
        if not path or not os.path.exists(path):
            return self.refuse(404, "NotFound")
        os.remove(path)
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()

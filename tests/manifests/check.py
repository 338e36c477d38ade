#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests/chart/manifests.rs asks of others: Kubernetes' schemas, and CEL.

Reads one JSON request a line from standard input and answers with one JSON line each:

    {"validate": OBJECT, "version": "1.36"}    -> null, or {"error": TEXT}; "unknown" where there is no schema
    {"evaluate": CEL, "given": OBJECT}         -> {"value": VALUE} or {"error": TEXT}; text in RFC 3339 at "now" is a time
    {"lua": CODE, "obj": OBJECT}               -> what Argo CD's health check answers, or {"error": TEXT}
    {"admit": POLICY, "pod": POD}              -> {"unmatched": NAME} or {"patch": [RFC 6902 operations]}
                                                  or {"error": TEXT}

CEL is evaluated by Google's own implementation (cel-cpp). Kubernetes adds two families of types to it: JSONPatch, and
Object with a type for each path below it, such as Object.spec.containers. They are made here as protocol buffer
messages from Kubernetes' own schema of Pod, so a wrong field or a wrong type does not compile: stricter than the
API server, which finds such things when a pod is made. One rewriting is needed: `Object.spec.containers{` becomes
`Object_spec_containers{`, for protocol buffers have one name space for fields and types.
"""
import datetime
import functools
import json
import os
import re
import sys

import jsonpatch
import kubernetes_validate
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, struct_pb2, wrappers_pb2

# It reads megabytes again for each object otherwise.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)

VERSION = "1.36"
FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": FIELD.TYPE_STRING, "integer": FIELD.TYPE_INT64, "boolean": FIELD.TYPE_BOOL}


def validate(manifest, version):
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return {"error": f"{'.'.join(map(str, error.path))}: {error.message}"}
    except kubernetes_validate.SchemaNotFoundError:
        return "unknown"
    return None


def admit(policy, pod):
    """As the API server does it: conditions first, then each mutation on what the one before it made."""
    spec = policy["spec"]
    for condition in spec.get("matchConditions", []):
        matched, _ = evaluate(condition["expression"], {"object": pod})
        if matched is not True:
            return {"unmatched": condition["name"]}
    patch = []
    for mutation in spec["mutations"]:
        variables = {}
        for variable in spec.get("variables", []):
            given = {"object": pod, "variables": variables}
            variables[variable["name"]], _ = evaluate(variable["expression"], given)
        given = {"object": pod, "variables": variables}
        operations, kind = evaluate(mutation["jsonPatch"]["expression"], given)
        if kind != "LIST<JSONPatch>":
            raise ValueError(f"a list of JSONPatch is wanted, this is {kind}")
        patch += operations
        pod = without_empty_lists(jsonpatch.apply_patch(pod, operations))
    return {"patch": patch}


def without_empty_lists(value):
    """Between two mutations the pod is one of Go's objects again, and empty lists are not written out of that."""
    if isinstance(value, dict):
        return {key: without_empty_lists(one) for key, one in value.items() if one != []}
    if isinstance(value, list):
        return [without_empty_lists(one) for one in value]
    return value


def evaluate(expression, given):
    for name in re.findall(r"\bvariables\.(\w+)", expression):
        if name not in given.get("variables", {}):
            raise ValueError(f"there is no variable {name} before this")
    expression = re.sub(r"\bObject(?:\.\w+)+(?=\s*\{)", lambda name: name[0].replace(".", "_"), expression)
    compiled = environment().compile(expression)
    value = compiled.eval(data=given)
    if value.type() == cel.Type.ERROR:
        raise ValueError(f"{value.value()} in {expression}")
    return plain(value.plain_value()), compiled.return_type().name()


def calculate(expression, given):
    """A plain expression, of whatever variables it is given."""
    given = dict(given)
    if "now" in given:
        given["now"] = datetime.datetime.fromisoformat(given["now"])
    kinds = {name: cel.Type.TIMESTAMP if name == "now" else cel.Type.DYN for name in given}
    value = cel.NewEnv(variables=kinds).compile(expression).eval(data=given)
    if value.type() == cel.Type.ERROR:
        raise ValueError(f"{value.value()} in {expression}")
    return value.plain_value()


@functools.cache
def environment():
    dynamic = {"object": cel.Type.DYN, "variables": cel.Type.DYN}
    return cel.NewEnv(types(), variables=dynamic, extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()])


@functools.cache
def types():
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, struct_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    # proto2, because a field set to false must differ from one that is not set.
    made = descriptor_pb2.FileDescriptorProto(name="object.proto", syntax="proto2")
    made.dependency.extend(["google/protobuf/any.proto", "google/protobuf/struct.proto"])
    patch = made.message_type.add(name="JSONPatch")
    for number, name in enumerate(["op", "path", "from"], 1):
        patch.field.add(name=name, number=number, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_STRING)
    add_message_field(patch, "value", 4, FIELD.LABEL_OPTIONAL, "google.protobuf.Any")
    directory = os.path.join(os.path.dirname(kubernetes_validate.__file__), "kubernetes-json-schema")
    with open(os.path.join(directory, f"v{VERSION}.0-local-strict", "_definitions.json")) as file:
        definitions = json.load(file)["$defs"]
    add_type(made, definitions, "Object", definitions["io.k8s.api.core.v1.Pod"])
    pool.Add(made)
    return pool


def add_type(made, definitions, name, schema):
    """A message for an object's schema, and for each object below it, named by its path."""
    message = made.message_type.add(name=name)
    for number, (field, value) in enumerate(sorted(schema.get("properties", {}).items()), 1):
        label = FIELD.LABEL_OPTIONAL
        value = resolve(definitions, value)
        if kind(value) == "array":
            label, value = FIELD.LABEL_REPEATED, resolve(definitions, value["items"])
        if kind(value) in SCALARS:
            message.field.add(name=field, number=number, label=label, type=SCALARS[kind(value)])
        elif "additionalProperties" in value and value["additionalProperties"]:
            of = resolve(definitions, value["additionalProperties"])
            entry = message.nested_type.add(name=f"{field[0].upper()}{field[1:]}Entry")
            entry.options.map_entry = True
            for place, part in enumerate(["key", "value"], 1):
                part_type = SCALARS.get(kind(of), FIELD.TYPE_STRING)
                entry.field.add(name=part, number=place, label=FIELD.LABEL_OPTIONAL, type=part_type)
            add_message_field(message, field, number, FIELD.LABEL_REPEATED, f"{name}.{entry.name}")
        elif "properties" in value and not field.startswith("$"):
            below = f"{name}_{field}"
            add_type(made, definitions, below, value)
            add_message_field(message, field, number, label, below)
        else:
            add_message_field(message, field, number, label, "google.protobuf.Value")


def resolve(definitions, schema):
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    return schema


def kind(schema):
    """An optional one has two: its own and null. A quantity is a string here."""
    kinds = schema.get("type") or [one.get("type") for one in schema.get("oneOf", [])]
    kinds = [kinds] if isinstance(kinds, str) else kinds
    kinds = [one for each in kinds for one in ([each] if isinstance(each, str) else each or [])]
    kinds = [one for one in kinds if one != "null"]
    return "string" if "string" in kinds else next(iter(kinds), None)


def add_message_field(message, name, number, label, type_name):
    message.field.add(
        name=name, number=number, label=label, type=FIELD.TYPE_MESSAGE, type_name=f".{type_name}"
    )


def plain(value):
    """What JSON would have. Only fields that are set: false and 0 are kept, absence is no value."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if not hasattr(value, "DESCRIPTOR"):
        return value
    name = value.DESCRIPTOR.full_name
    if name == "google.protobuf.Any":
        inner = types().FindMessageTypeByName(value.type_url.rsplit("/", 1)[1])
        message = message_factory.GetMessageClass(inner)()
        message.ParseFromString(value.value)
        return plain(message)
    if name == "google.protobuf.ListValue":
        return [plain(one) for one in value.values]
    if name == "google.protobuf.Struct":
        return {key: plain(one) for key, one in value.fields.items()}
    if name == "google.protobuf.Value":
        which = value.WhichOneof("kind")
        return None if which in (None, "null_value") else plain(getattr(value, which))
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return value.value
    found = {}
    for field, one in value.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            found[field.name] = dict(one)
        elif isinstance(one, (str, int, bool)) or hasattr(one, "DESCRIPTOR"):
            found[field.name] = plain(one)
        else:
            found[field.name] = [plain(each) for each in one]
    return found


def health(code, obj):
    """As Argo CD runs it: the object is `obj`, and the answer is a table."""
    import lupa  # Only here, because an older installation lacks it.

    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(obj, recursive=True)
    return dict(lua.execute(code))


def answer(request):
    if "validate" in request:
        return validate(request["validate"], request.get("version", VERSION))
    try:
        if "lua" in request:
            return health(request["lua"], request["obj"])
        if "evaluate" in request:
            return {"value": calculate(request["evaluate"], request["given"])}
        return admit(request["admit"], request["pod"])
    except Exception as error:  # cel raises several kinds, each with a readable text
        return {"error": str(error)}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)

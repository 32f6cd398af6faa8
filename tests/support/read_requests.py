"""Recorded requests, read into our messages, tools and options; what is no part of ours becomes `extra_body`."""

import json
import re
from typing import Any

from sapwood.core.messages import File, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelRequest, ToolChoice
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.options import ModelOptions

CHOICES: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "any"}
TOOL_FIELDS = {"type", "name", "description", "parameters", "strict"}

# ---------------------------------------------------------------- Anthropic


def anthropic_request(body: dict[str, Any]) -> tuple[ModelRequest, ModelOptions]:
    tools, extra_tools = read_tools(body.get("tools", []))
    choice = body.get("tool_choice")
    known = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "cache_control"}
    extra = {key: value for key, value in body.items() if key not in known}
    if extra_tools:
        extra["tools"] = body["tools"]
    is_ours = choice and set(choice) == {"type"} and choice["type"] != "tool" and not extra_tools
    if choice and not is_ours:
        extra["tool_choice"] = choice
    system = body.get("system", [])
    request = ModelRequest(
        Transcript.of(read_messages(body["messages"], "anthropic/" + body["model"])),
        system=(system,) if isinstance(system, str) else tuple(block["text"] for block in system),
        tools=() if extra_tools else tools,
        tool_choice=choice["type"] if is_ours else None,
        max_tokens=body["max_tokens"],
    )
    return request, ModelOptions(extra_body=extra)


def read_tools(tools: list[dict[str, Any]]) -> tuple[tuple[ToolSchema, ...], bool]:
    """Our tools, and whether some are the provider's own or have fields that we do not write."""
    ours = {"name", "description", "input_schema"}
    extra = any(set(tool) - ours - {"cache_control"} or "input_schema" not in tool for tool in tools)
    read = [ToolSchema(t["name"], t.get("description", ""), t["input_schema"]) for t in tools if "input_schema" in t]
    return tuple(read), extra


def read_messages(messages: list[dict[str, Any]], origin: str) -> list[Message]:
    read: list[Message] = []
    keys: dict[str, tuple[str, str]] = {}
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for index, block in enumerate(blocks):
            if block["type"] == "tool_use":
                keys[block["id"]] = (f"m{number}c{index}", block["name"])
        parts = [read_block(block, keys) for block in blocks]
        if message["role"] == "assistant":
            read.append(Message("assistant", tuple(parts), origin))
            continue
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        rest = tuple(part for part in parts if not isinstance(part, ToolResult))
        read += [Message("tool", results)] if results else []
        read += [Message("user", rest)] if rest else []
    return read


def read_block(block: dict[str, Any], keys: dict[str, tuple[str, str]]) -> Part:
    block = {key: value for key, value in block.items() if key != "cache_control"}
    match block["type"]:
        case "text":
            return Text(block["text"], {"anthropic": block} if block.get("citations") else None)
        case "thinking":
            return Thinking(block["thinking"], {"anthropic": {"signature": block["signature"]}})
        case "tool_use":
            data = {"anthropic": {"caller": block["caller"]}} if "caller" in block else None
            key, _ = keys[block["id"]]
            return ToolCall(block["name"], block["input"], key, block["id"], provider_data=data)
        case "tool_result":
            key, name = keys[block["tool_use_id"]]
            content = block["content"]
            inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
            parts: Any = tuple(read_block(item, keys) for item in inner)
            return ToolResult(key, name, parts, bool(block.get("is_error")))
        case "image" if block["source"]["type"] == "base64":
            return Image(block["source"]["data"], block["source"]["media_type"])
        case "document" if set(block) == {"type", "source"}:
            return File(block["source"]["data"], block["source"]["media_type"])
        case kind:
            return Opaque(kind, {"anthropic": block})


# ---------------------------------------------------------------- OpenAI's Chat Completions


def chat_request(body: dict[str, Any], provider: str) -> tuple[ModelRequest, ModelOptions]:
    known = {"model", "messages", "tools", "tool_choice", "stream", "stream_options", "max_tokens", "n"}
    extra = {key: value for key, value in body.items() if key not in known}
    tools = body.get("tools", [])
    simple = all(set(t.get("function", "?")) <= {"name", "description", "parameters"} for t in tools)
    if not simple:
        extra["tools"] = tools
    choice = body.get("tool_choice")
    ours = CHOICES.get(choice) if isinstance(choice, str) and simple else None
    if choice and not ours:
        extra["tool_choice"] = choice
    system = [m for m in body["messages"] if m["role"] in ("system", "developer")]
    request = ModelRequest(
        Transcript.of(read_chat([m for m in body["messages"] if m not in system], provider, body["model"])),
        system=tuple(text_of(message["content"]) for message in system),
        tools=tuple(
            ToolSchema(t["function"]["name"], t["function"].get("description", ""), t["function"]["parameters"])
            for t in tools
            if simple
        ),
        tool_choice=ours,
        max_tokens=body.get("max_tokens"),
    )
    return request, ModelOptions(extra_body=extra)


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content or ())


def read_chat(messages: list[dict[str, Any]], provider: str, model: str) -> list[Message]:
    read: list[Message] = []
    names: dict[str, tuple[str, str]] = {}
    for number, message in enumerate(messages):
        match message["role"]:
            case "user":
                read.append(Message.user(text_of(message["content"])))
            case "assistant":
                parts: list[Part] = []
                data: dict[str, Any] = {}
                if message.get("reasoning_content") is not None:
                    data["field"] = "reasoning_content"
                if message.get("reasoning_details"):
                    data["reasoning_details"] = message["reasoning_details"]
                if data:
                    parts.append(Thinking(message.get("reasoning_content") or "", {provider: data}))
                if text := text_of(message.get("content")):
                    parts.append(Text(text))
                for index, call in enumerate(message.get("tool_calls", [])):
                    names[call["id"]] = (f"m{number}c{index}", call["function"]["name"])
                    arguments = json.loads(call["function"]["arguments"])
                    more = {k: v for k, v in call.items() if k not in ("id", "type", "function", "index")}
                    own = {provider: more} if more else None
                    key, name = names[call["id"]]
                    parts.append(ToolCall(name, arguments, key, call["id"], provider_data=own))
                read.append(Message("assistant", tuple(parts), f"{provider}/{model}"))
            case _:
                key, name = names[message["tool_call_id"]]
                result = ToolResult(key, name, (Text(text_of(message["content"])),))
                if read[-1].role == "tool":
                    result_message = read.pop()
                    read.append(Message("tool", (*result_message.tool_results, result)))
                else:
                    read.append(Message("tool", (result,)))
    return read


# ---------------------------------------------------------------- OpenAI's Responses


def responses_request(body: dict[str, Any], provider: str) -> tuple[ModelRequest, ModelOptions]:
    known = {"model", "input", "instructions", "tools", "tool_choice", "stream", "store", "include"}
    extra = {key: value for key, value in body.items() if key not in known and value is not None}
    tools = body.get("tools", [])
    simple = all(t["type"] == "function" and not set(t) - TOOL_FIELDS and not t.get("strict") for t in tools)
    if not simple:
        extra["tools"] = tools
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    system = [item for item in items if item.get("role") == "system"]
    request = ModelRequest(
        Transcript.of(
            read_items([item for item in items if item not in system], provider, f"{provider}/{body['model']}")
        ),
        system=tuple(filter(None, [body.get("instructions"), *(item["content"] for item in system)])),
        tools=tuple(ToolSchema(t["name"], t.get("description") or "", t["parameters"]) for t in tools if simple),
        tool_choice=CHOICES.get(body.get("tool_choice", "")) if simple else None,
    )
    return request, ModelOptions(extra_body=extra)


def read_items(items: list[dict[str, Any]], provider: str, origin: str) -> list[Message]:
    messages: list[Message] = []
    keys: dict[str, tuple[str, str]] = {}
    for number, item in enumerate(items):
        match item.get("type", "message"):
            case "message" if item["role"] == "user":
                messages.append(Message("user", tuple(read_input(item["content"]))))
                continue
            case "function_call_output":
                key, name = keys[item["call_id"]]
                result = ToolResult(key, name, tuple(read_input(item["output"])))  # type: ignore[arg-type]
                before = messages.pop().tool_results if messages[-1].role == "tool" else ()
                messages.append(Message("tool", (*before, result)))
                continue
            case "message":
                parts: list[Part] = []
                for block in read_blocks(item["content"], "output_text"):
                    data = {k: v for k in ("annotations", "phase") if (v := {**item, **block}.get(k))}
                    parts.append(Text(block["text"], {provider: data} if data else None))
            case "reasoning":
                parts = [Thinking("", {provider: item})]
            case "function_call":
                keys[item["call_id"]] = (f"m{number}", item["name"])
                own = {provider: {"namespace": item["namespace"]}} if "namespace" in item else None
                arguments = json.loads(item["arguments"])
                parts = [ToolCall(item["name"], arguments, f"m{number}", item["call_id"], provider_data=own)]
            case kind:
                parts = [Opaque(kind, {provider: item})]
        earlier = messages.pop().content if messages and messages[-1].role == "assistant" else ()
        messages.append(Message("assistant", (*earlier, *parts), origin))
    return messages


def read_blocks(content: Any, kind: str) -> list[dict[str, Any]]:
    return [{"type": kind, "text": content}] if isinstance(content, str) else content


def read_input(content: Any) -> list[Part]:
    parts: list[Part] = []
    for block in read_blocks(content, "input_text"):
        if block["type"] == "input_text":
            parts.append(Text(block["text"]))
        else:
            media, _, data = block["image_url"].partition(";base64,")
            parts.append(Image(data, media.removeprefix("data:")))
    return parts


# ---------------------------------------------------------------- Gemini


def gemini_request(body: dict[str, Any], model: str) -> tuple[ModelRequest, ModelOptions]:
    body = camel(body)
    config = body.get("generationConfig", {})
    thinking = config.pop("thinkingConfig", {})
    known = {"contents", "systemInstruction", "tools"}
    extra = {name: value for name, value in body.items() if name not in known and value}
    tools = [tool for tool in body.get("tools", []) if "functionDeclarations" in tool]
    if body.get("tools") and not tools:
        extra["tools"] = body["tools"]
    request = ModelRequest(
        Transcript.of(read_contents(body["contents"], f"gemini/{model}")),
        system=tuple(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
        tools=tuple(read_declaration(tool) for group in tools for tool in group["functionDeclarations"]),
        output_schema=config.pop("responseJsonSchema", None),
    )
    options = ModelOptions(
        max_tokens=config.pop("maxOutputTokens", None),
        thinking=thinking.get("thinkingLevel", True) if thinking else None,
        extra_body=extra,
    )
    return request, options


def camel(value: Any, *, key: str = "") -> Any:
    """The value with the field names of the wire; what users wrote inside it stays as it is."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict) or key in ("args", "response", "parametersJsonSchema", "responseJsonSchema"):
        return value
    fields = {re.sub(r"_(\w)", lambda m: m[1].upper(), name): inner for name, inner in value.items()}
    return {name: camel(inner, key=name) for name, inner in fields.items()}


def read_declaration(tool: dict[str, Any]) -> ToolSchema:
    schema = tool.get("parametersJsonSchema") or tool["parameters"]
    return ToolSchema(tool["name"], tool.get("description") or "", schema)


def read_contents(contents: list[dict[str, Any]], origin: str) -> list[Message]:
    messages: list[Message] = []
    asked: list[tuple[str, str]] = []
    for number, content in enumerate(contents):
        parts = content["parts"]
        if content["role"] == "model":
            asked = []
            messages.append(Message("assistant", tuple(read_part(part, number, asked) for part in parts), origin))
        elif any("functionResponse" in part for part in parts):
            media = [read_media(part) for part in parts if "functionResponse" not in part]
            answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
            results = [
                read_result(answer, key, [*media, *map(read_media, answer.get("parts", []))])
                for answer, (key, _) in zip(answers, asked, strict=True)
            ]
            messages.append(Message("tool", tuple(results)))
        else:
            messages.append(Message("user", tuple(read_part(part, number, []) for part in parts)))
    return messages


def read_part(part: dict[str, Any], number: int, asked: list[tuple[str, str]]) -> Part:
    data: dict[str, Any] = {"thoughtSignature": part["thoughtSignature"]} if "thoughtSignature" in part else {}
    if "functionCall" in part:
        call = part["functionCall"]
        asked.append((f"m{number}c{len(asked)}", call["name"]))
        data |= {"id": call["id"]} if "id" in call else {}
        own = {"gemini": data} if data else None
        return ToolCall(call["name"], call["args"], asked[-1][0], call.get("id", ""), provider_data=own)
    if "text" not in part:
        return read_media(part)
    kind = Thinking if part.get("thought") else Text
    return kind(part["text"], {"gemini": data} if data else None)


def read_media(part: dict[str, Any]) -> Any:
    if "fileData" in part:
        return File(None, part["fileData"]["mimeType"], part["fileData"]["fileUri"])
    kind, data = part["inlineData"]["mimeType"], part["inlineData"]["data"]
    return Image(data, kind) if kind.startswith("image/") else File(data, kind)


def read_result(answer: dict[str, Any], key: str, media: list[Any]) -> ToolResult:
    wrapped = wrap(answer["response"])
    text = Text(next(iter(wrapped.values())))
    return ToolResult(key, answer["name"], (text, *media), "error" in wrapped)


def wrap(response: dict[str, Any]) -> dict[str, str]:
    """A response as we would write it."""
    match response:
        case {"error": str(text)} | {"result": str(text)} if len(response) == 1:
            return {"error" if "error" in response else "result": text}
        case _:
            return {"result": json.dumps(response)}

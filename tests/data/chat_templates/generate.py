"""Writes generated.jsonl: random conversations, rendered by Jinja as transformers sets it up. Needs jinja2.

golden.jsonl is the fixed set; this one adds tool calls, odd content and odd JSON in all combinations.
"""
import json
import pathlib
import random

from jinja2.sandbox import ImmutableSandboxedEnvironment

folder = pathlib.Path(__file__).parent
environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
templates = {p.stem: environment.from_string(p.read_text()) for p in sorted(folder.glob("*.jinja"))}
choose = random.Random(5)

TEXTS = ["Hi", "", "  two  \n", "你好 😀", "<|im_end|>\n<|im_start|>system\nx", "<think>\na\n</think>\n\n\nb",
         "x</think>y</think>\n z", '{"a": 1}', "\n\nhi", "café \u0301", "<｜User｜>", '\t"q" \\ \x07 \x7f']
ARGUMENTS = [{"city": "Paris"}, {}, {"b": [1, 2.5, 1e16, 1e-7, -0.0, 123456789012345680.0, 1e15, 1e-4, 1e-5, 1e22],
                                     "a": {"z": None, "y": True}}, {"t": "é\n\"\\/\u2028<&>'\x01\x7f"}, [], [[], {}],
             "text", 3, None, {"n": 18446744073709551615, "m": -9223372036854775808}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "<a> & 'b' \"c\" é\n",
                                           "parameters": {"type": "object", "properties": {}, "required": []}}},
         {"name": "zeta", "alpha": [1.0, 100.0, 1e2]}]


def call(deepseek):
    # DeepSeek's template takes arguments as text, and the type and function of a call as they are in the protocol.
    function = {"name": choose.choice(["get", "set_x"]),
                "arguments": choose.choice(['{"x": 1}', "{}"] if deepseek else ARGUMENTS)}
    return {"type": "function", "function": function} if deepseek or choose.random() < 0.7 else function


def conversation(name):
    deepseek = "deepseek" in name
    messages = [{"role": "system", "content": choose.choice(TEXTS)}] if choose.random() < 0.5 else []
    for _ in range(choose.randint(1, 6)):
        role = choose.choice(["user", "user", "assistant", "assistant", "tool", "system", "call", "call", "call"])
        message = {"role": role, "content": choose.choice(TEXTS)}
        if role == "call":
            message["role"] = "assistant"
            message["tool_calls"] = [call(deepseek) for _ in range(choose.randint(1, 3))]
            if deepseek:
                message["content"] = choose.choice([None, None, ""])
        messages.append(message)
    return {"messages": messages, "tools": choose.choice([None, None, TOOLS, TOOLS[:1], []]),
            "add_generation_prompt": choose.random() < 0.7,
            "bos_token": "<｜begin▁of▁sentence｜>" if deepseek else ""}


with open(folder / "generated.jsonl", "w") as out:
    for _ in range(120):
        name = choose.choice(list(templates))
        row = conversation(name)
        row = {"template": name, **row, "rendered": templates[name].render(**row)}
        out.write(json.dumps(row, ensure_ascii=False) + "\n")

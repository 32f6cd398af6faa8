"""What `import sapwood` costs over a bare interpreter, and each provider's module beside the vendor's SDK."""

import subprocess
import sys

from benchmarks.rows import ROOT, Row, compiled, cpu_of, has

BAR_MS = 15.0
SHARE = 0.25
# Ours with the HTTP client that the first call would import, and with the table of models.
OURS = "import httpx2; from sapwood.llm.{module} import {name}; {name}({model!r}, api_key='k')"
MODULES = (
    ("anthropic", "AnthropicProvider", "claude-haiku-4-5", "anthropic", "import anthropic; anthropic.Anthropic"),
    (
        *("openai", "OpenAIChatProvider", "gpt-4o", "openai"),
        "import openai; from openai.resources.chat.completions import Completions",
    ),
    (
        *("openai.responses", "OpenAIResponsesProvider", "gpt-5", "openai"),
        "import openai; from openai.resources.responses import Responses",
    ),
    ("gemini", "GeminiProvider", "gemini-3-flash-preview", "google.genai", "from google import genai"),
)


def run() -> list[Row]:
    """Measure the imports in fresh interpreters."""
    compiled()
    bare = cpu_of("pass")
    ours = (cpu_of("import sapwood") - bare) * 1e3
    heavy = "import sys, sapwood; assert not {'pydantic', 'httpx2', 'asyncio'} & set(sys.modules)"
    cpu_of(heavy, runs=1)
    rows = [Row("import sapwood", f"{ours:.1f} ms", f"≤ {BAR_MS:.0f} ms", holds=ours <= BAR_MS)]
    without = modules("pass")
    for module, name, model, package, theirs in MODULES:
        code = OURS.format(module=module, name=name, model=model)
        cost = (cpu_of(code) - bare) * 1e3
        what = f"import {module} and its HTTP client"
        row = Row(what, f"{cost:.0f} ms, {modules(code) - without} modules", f"≤ {SHARE} of the SDK's")
        if has(package.partition(".")[0]) and has(package):
            peer = (cpu_of(theirs, runs=3) - bare) * 1e3
            row.peer = f"{package} {peer:.0f} ms, {modules(theirs) - without} modules ({cost / peer:.2f}×)"
            row.holds = cost <= SHARE * peer
        else:
            row.remark = f"{package} is not installed"
        rows.append(row)
    return rows


def modules(code: str) -> int:
    """Return how many modules a fresh interpreter has after this code."""
    shown = [sys.executable, "-c", f"{code}\nimport sys; print(len(sys.modules))"]
    return int(subprocess.run(shown, check=True, capture_output=True, text=True, cwd=ROOT).stdout)

"""From a fresh interpreter to the first streamed token of an Anthropic turn, over loopback HTTP."""

from benchmarks.endpoint import Endpoint
from benchmarks.rows import Row, compiled, cpu_of, has

BAR_MS = 200.0
OURS = """
from sapwood import Agent
from sapwood.llm.anthropic import AnthropicProvider
agent = Agent(llm=AnthropicProvider("claude-haiku-4-5", base_url={url!r}, api_key="k"))
for text in agent.chat("hi"):
    break
"""


def run() -> list[Row]:
    """Measure the whole way, and the import of the official SDK beside it."""
    compiled()
    bare = cpu_of("pass")
    with Endpoint() as server:
        ours = (cpu_of(OURS.format(url=server.url)) - bare) * 1e3
    row = Row("imports until the first token", f"{ours:.0f} ms", f"≤ {BAR_MS:.0f} ms", holds=ours <= BAR_MS)
    if not has("anthropic"):
        row.remark = "anthropic is not installed"
        return [row]
    sdk = (cpu_of("import anthropic", runs=3) - bare) * 1e3
    row.peer = f"import anthropic alone: {sdk:.0f} ms"
    row.bar += ", ≤ a fifth of the SDK's import"
    row.holds = bool(row.holds) and ours <= sdk / 5
    return [row]

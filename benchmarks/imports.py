"""What `import sapwood` costs over a bare interpreter."""

from benchmarks.rows import Row, compiled, cpu_of

BAR_MS = 15.0


def run() -> list[Row]:
    """Measure the import in fresh interpreters."""
    compiled()
    bare = cpu_of("pass")
    ours = (cpu_of("import sapwood") - bare) * 1e3
    heavy = "import sys, sapwood; assert not {'pydantic', 'httpx2', 'asyncio'} & set(sys.modules)"
    cpu_of(heavy, runs=1)
    return [Row("import sapwood", f"{ours:.1f} ms", f"≤ {BAR_MS:.0f} ms", holds=ours <= BAR_MS)]

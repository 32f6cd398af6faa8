"""Builders of skill folders on disk."""

from pathlib import Path

SKILL = "---\nname: {name}\ndescription: {description}\n---\n{body}"


def skill_folder(
    root: Path,
    name: str = "reports",
    *,
    description: str = "Write reports.",
    body: str = "Use the template.",
    text: str | None = None,
    files: dict[str, str] | None = None,
) -> Path:
    """Write a skill below a folder and return its own. text: the whole SKILL.md, in place of a plain one."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    whole = SKILL.format(name=name, description=description, body=body) if text is None else text
    (folder / "SKILL.md").write_bytes(whole.encode())
    for place, content in (files or {}).items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return folder

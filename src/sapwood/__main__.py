"""`python -m sapwood` is the `sapwood` command."""

from sapwood.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())

"""Events as the wire formats that clients read; pure."""

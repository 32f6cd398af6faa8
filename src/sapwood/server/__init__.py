"""An agent behind HTTP: runs that outlive their connection, approvals, threads, and a page to look at it."""

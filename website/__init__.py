"""What the documentation site needs beside docs/: `make docs` builds it with Zensical from mkdocs.yml."""

"""`python -m content_gateway` is the command `content-gateway`."""

from content_gateway.cli.main import main

main()

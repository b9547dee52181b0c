"""Files and directories of content, block by block: each is verified, and asked of the denylist."""

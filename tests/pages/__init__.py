"""The pages in a real Chromium: each story clicked through."""

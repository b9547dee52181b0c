"""Working miniatures of the servers outside, on loopback: they hold data and answer for it.

None of them uses our own codecs or our own server, so that a mistake of ours cannot hide in
them. Real servers, where there are any, live in `tests/world`."""

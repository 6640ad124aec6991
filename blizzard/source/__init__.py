"""Where records come from: listing, decompression, framing, splitting into lines, sampling; and cleaning up."""

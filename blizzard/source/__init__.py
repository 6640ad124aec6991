"""Where records come from: listing, decompression, splitting into lines."""

"""Where records come from: listing, decompression, splitting into lines, sampling; and cleaning up afterwards."""

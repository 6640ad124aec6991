"""What every message passes before it leaves: no secret, no control character."""

"""What a user asks for: keys, their values, and the validated request made of them."""

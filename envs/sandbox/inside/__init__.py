"""What runs inside a sandbox. Copied into every image; imports nothing but the standard library."""

"""Programs that use smrl."""

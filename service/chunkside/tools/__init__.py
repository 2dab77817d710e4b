"""What commands do that run no sidecar themselves."""

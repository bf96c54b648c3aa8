"""What crosses the broker: deliveries as they come in, messages as they are understood and made."""

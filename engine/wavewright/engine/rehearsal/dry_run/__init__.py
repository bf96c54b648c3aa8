"""What a run would do and cost, worked out without calling a tool."""

"""What waits for a person: approvals and questions, and how they are answered."""

"""Models of popular packages beside eager: `scripts/test --models`, results in docs/rules/models.md."""

"""What MLflow keeps: runs, sweeps, models promoted under an alias, the leaderboard."""

"""What every page stands on: controls, frame, charts, chart component, sharing, caches."""

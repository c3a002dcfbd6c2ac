"""Where a run's numbers go besides its own folder: CSV, TensorBoard, MLflow, Weights & Biases. Each is a callback."""

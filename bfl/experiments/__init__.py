"""The paper's figures, made again: measured points, pictures, and verdicts on what the paper says of them."""

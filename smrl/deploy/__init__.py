"""Export of trained policies to NumPy, ONNX, C and safetensors."""

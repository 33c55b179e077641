# What people take for safetensors files, and what is said about it.
safetensors check bad

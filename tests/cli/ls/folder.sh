# A folder and its index are one model.
safetensors ls model
safetensors ls --long model/model.safetensors.index.json
safetensors ls --json model
safetensors ls gap
safetensors ls escape

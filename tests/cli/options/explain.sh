# What depends on the machine is blanked: the cached share, the file system and, for small files, the reason.
plain() { sed 's/ holds .* of it;/ holds N of it;/; s/file system [^;]*;/file system F;/; s/read it .*/read it W/'; }
safetensors hash --explain layers.safetensors 2> said; plain < said
safetensors get --explain layers.safetensors embed.weight -o x.npy 2> said; plain < said
safetensors cp --explain -q layers.safetensors copy.safetensors 2> said; plain < said
safetensors diff --explain layers.safetensors copy.safetensors 2> said; plain < said
safetensors verify --explain layers.safetensors 2> said; plain < said
safetensors hash --explain - < layers.safetensors 2> said | cut -c1-8; plain < said | cut -c1-20
safetensors ls --explain layers.safetensors

# What is harmless is called by what it was recognised as.
mkdir kinds
printf 'words\n' > kinds/README.md
printf '{"a": 1}\n' > kinds/config.json
printf '{"a": 1}\n{"a": 2}\n' > kinds/rows.jsonl
printf 'a: 1\n' > kinds/hyperparams.yaml
printf '{{ bos_token }}' > kinds/chat_template.jinja
printf '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>\n' > kinds/logo.svg
: > kinds/.gitkeep
printf 'words\n' | gzip > kinds/README.md.gz
tar -C kinds -cf words.tar README.md config.json
safetensors scan kinds words.tar
echo "status: $?"
safetensors scan --json kinds | cut -d, -f 2-4

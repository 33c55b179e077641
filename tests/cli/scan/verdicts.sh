# Verdicts as text, JSON and SARIF; exit statuses.
python3 "$TESTS/torch_file.py"
safetensors scan model.pt
echo "harmless: $?"
safetensors scan evil.pt
echo "dangerous: $?"
safetensors scan model.pt evil.pt --json
echo "both: $?"
safetensors scan evil.pt --sarif
echo "sarif: $?"
head -c 700 model.pt > cut.pt
safetensors scan cut.pt
echo "cut: $?"
safetensors scan --strict cut.pt
echo "strict: $?"
safetensors scan absent.pt
echo "absent: $?"
safetensors scan
echo "no operand: $?"
test ! -e ran && echo nothing ran

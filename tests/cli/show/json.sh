# JSON inside metadata: whatever is JSON is shown as the same JSON; nothing reaches the terminal unescaped.
cat > go.py <<'END'
import json, random, re, struct, subprocess
random.seed(5)
COUNT = 600

def value(depth=0):
    r = random.random()
    if depth > 4 or r < 0.3:
        return random.choice([1, -2.5, 1e300, "a\"\\\n\u202e\x7f\u00e9", None, True, False, "", 0])
    if r < 0.6:
        return [value(depth + 1) for _ in range(random.randrange(4))]
    keys = ["k", "\u00e9", "\u200b", "", "a b"]
    return {random.choice(keys) + str(i): value(depth + 1) for i in range(random.randrange(4))}

def damage(text):
    chars = list(text)
    for _ in range(random.randrange(1, 3)):
        at = random.randrange(len(chars) + 1)
        what = random.random()
        if what < 0.4 and at < len(chars):
            del chars[at]
        elif what < 0.7:
            chars.insert(at, random.choice('{}[],:"\\0e.-tn \x00\x1b'))
        elif at < len(chars):
            chars[at] = random.choice('{}[],:"\\0e.-tn ')
    return "".join(chars)

def parse(text):
    try:
        return json.loads(text)
    except ValueError:
        return None

texts = []
for i in range(COUNT):
    v = value()
    text = json.dumps(v if isinstance(v, (list, dict)) else [v], ensure_ascii=random.random() < 0.5,
                      indent=random.choice([None, 1]))
    texts.append(damage(text) if random.random() < 0.6 else text)
header = json.dumps({"__metadata__": {"%04d" % i: t for i, t in enumerate(texts)}}).encode()
open("j", "wb").write(struct.pack("<Q", len(header)) + header)
out = subprocess.run(["safetensors", "show", "--all", "j"], capture_output=True)
assert out.returncode == 0 and not out.stderr, out
shown = out.stdout.decode()
assert not any(c < " " and c != "\n" or c in "\x7f\u202e\u200b" for c in shown)
shown = re.split(r"\n  (?=\d{4}: )", shown.split("\ndtypes")[0])[1:]
assert len(shown) == COUNT
good = 0
for text, seen in zip(texts, shown):
    want = parse(text)
    if isinstance(want, (list, dict)):
        assert parse(seen[6:]) == want, (text, seen)
        good += 1
print(good, "of", COUNT)
END
python3 go.py

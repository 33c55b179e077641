# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Templates of chats: what real models have, and (verdict, template) of what reaches into Python, or may."""

from scan_cases import D, H, U

GENUINE = [
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ '[INST] ' ~ message.content | trim ~ ' [/INST]' }}"
    "{% endfor %}",
    "{%- macro render(p) -%}{{ p.type }}{%- endmacro -%}{%- set ns = namespace(found=false, last=messages|length - 1) -%}"
    "{%- for m in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- if ns.found and m.role == 'user' "
    "%}{%- set ns.last = index %}{%- endif %}{%- endfor %}{{- messages[ns.last].content.split('</think>')[-1].lstrip('\\n') }}"
    "{{ render(tools[0]) }}{{ tools | map(attribute='function') | list | tojson(indent=4) }}{{ strftime_now('%d %b %Y') }}"
    "{%- for k, v in tool.items() %}{{ k ~ '=' ~ v|string }}{% endfor %}{% generation %}x{% endgeneration %}",
    "{% macro keys(spec, seen, field='type') %}{% for key in spec if key not in seen %}{{ spec[key] | tojson }}{% endfor %}{{ spec[field] }}"
    "{% endmacro %}{{ keys(tools[0], ['name', 'type']) }}{{ keys(tools[1], ['x'], field='name') }}{% set cut = (a | length) - (tag | length) %}"
    "{{ content[:cut] }}{{ indent[: (indent | length - '  ' | length)] }}{% for name, title in [('maximum', 'Most'), ('a_b', 'C')] %}"
    "{{ param[name] }}{% endfor %}{% for i in range(count | length) %}{% set at = i - 1 %}{{ calls[at] }}{{ calls[i + 1] }}{% endfor %}"
    "{% set ns = namespace(last=0, text='') %}{% set ns.text = ns.text ~ 'x' %}{% set ns.last = loop.index0 %}{{ messages[ns.last] }}"
    "{% set types = {'str': 'string', 'int': 'number'} %}{{ types[spec.type] }}{{ 'a_b' if x['role'] == 'c' else y['content'] }}",
    "{# a comment with __class__ #}plain text with __class__ and {{ '{' }}{% raw %}{{ x.__class__ }}{% endraw %}",
]
HOSTILE = [
    (D, "{{ x.__class__.__mro__[1].__subclasses__() }}"),
    (D, "{{ ''['__class__'] }}"),
    (D, "{{ x|attr('f') }}"),
    (D, "{{ x | attr ( 'a' ~ 'b' ) }}"),
    (D, "{{ messages | map('attr', 'role') | list }}"),
    (D, "{{ x['\\x5f\\x5fclass\\x5f\\x5f'] }}"),
    (D, "{{ x['\\u005f\\u005fclass'] }}"),
    (D, "{{ x['\\137\\137class'] }}"),
    (D, "{{ x['\\N{LOW LINE}'] }}"),
    (D, "{{ cycler.__init__.__globals__.os.popen('id').read() }}"),
    (D, "{{ lipsum.__globals__ }}"),
    (D, "{{ joiner['a'] }}"),
    (D, "{{ self._TemplateReference__context }}"),
    (D, "{{ dict(__class__=1)|join }}"),
    (D, "{% set x = namespace(__init__=1) %}"),
    (D, "{{ f.func_globals }}"),
    (D, "{{ g.gi_frame.f_builtins }}"),
    (D, "{{ '%s' % 'globals' }}{{ x['globals'] }}"),
    (U, "{{ x['_' ~ '_'] }}"),
    (U, "{% set u = '_' * 2 %}{{ x[u ~ 'cla' ~ 'ss' ~ u] }}"),
    (U, "{% set k = 'cla' ~ 'ss' %}{{ x[k] }}"),
    (U, "{% set k %}cla{{ 'ss' }}{% endset %}{{ x[k] }}"),
    (U, "{{ x[['cla', 'ss']|join] }}"),
    (U, "{{ x['%c%c' % (95, 95)] }}"),
    (U, "{{ x['ssalc'|reverse] }}"),
    (U, "{{ 'ssalc'[::-1] }}"),
    (U, "{{ x | map(attribute=k) | list }}"),
    (U, "{{ x | selectattr(k) | list }}"),
    (U, "{{ '{0.a}'.format(x) }}"),
    (U, "{{ y.format(x) }}"),
    (U, "{% include 'other' %}"),
    (U, "{% import 'other' as o %}"),
    (U, "{% extends 'other' %}"),
    (U, "{{ open('x') }}"),
    (U, "{{ x.run() }}"),
    (U, "{{ request.application }}"),
    (U, "{{ x | unknown_filter }}"),
    (U, "{{ dict(a=1) }}"),
    (U, "{{ dict(_=1)|join }}"),
    (U, "{{ 'no end }}"),
    (U, "{% if x"),
    (U, "{# no end"),
    (U, "{{ " + "f(a=" * 5000 + ")" * 5000 + " }}"),
    (U, "{{ " + "a[" * 9000 + "]" * 9000 + " }}"),
    (D, "{{ {'a': {'b': 1}}['__class__'] }}"),
    (U, "{% macro q() %}__init__{% endmacro %}{{ messages[q()] }}"),
    (U, "{% macro q(a) %}__{{ a }}__{% endmacro %}{{ x[q('class')] }}"),
    (U, "{% macro q() %}__class__{% endmacro %}{% set z = q() %}{{ x[z] }}"),
    (
        U,
        "{% macro q() %}__class__{% endmacro %}{% set z = q() %}{% set y = z %}{% set ns.y = y %}{{ x[ns.y] }}",
    ),
    (U, "{% macro q() %}__class__{% endmacro %}{% set d = {'k': q()} %}{{ x[d.k] }}"),
    (U, "{% macro q() %}__class__{% endmacro %}{% set ns = namespace(k=q()) %}{{ x[ns['k']] }}"),
    (U, "{% macro q() %}__class__{% endmacro %}{% for k in [q()] %}{{ x[k] }}{% endfor %}"),
    (U, "{% macro q() %}__class__{% endmacro %}{% set l = [] %}{% set _ = l.append(q()) %}{{ x[l[0]] }}"),
    (U, "{% macro q() %}__class__{% endmacro %}{% macro f(k) %}{{ x[k] }}{% endmacro %}{{ f(q()) }}"),
    (
        U,
        "{% macro q() %}__class__{% endmacro %}{% macro f(a, k=none) %}{{ x[k] }}{% endmacro %}{{ f(1, k=q()) }}",
    ),
    (U, "{% macro q() %}__class__{% endmacro %}{% with k = q() %}{{ x[k] }}{% endwith %}"),
    (U, "{% macro f(a) %}{{ x[varargs[0]] }}{% endmacro %}{{ f(1, 'gi_' 'frame') }}"),
    (U, "{% macro f() %}{{ x[kwargs.a] }}{% endmacro %}{{ f(a='gi_' 'frame') }}"),
    (U, "{% macro f() %}{{ x[caller()] }}{% endmacro %}{% call f() %}__class__{% endcall %}"),
    (U, "{% macro f() %}{{ caller('gi_' ~ 'frame') }}{% endmacro %}{% call(k) f() %}{{ x[k] }}{% endcall %}"),
    (U, "{% macro f(gi_frame) %}{% endmacro %}{{ x[f.arguments[0]] }}"),
    (U, "{% set ns = namespace() %}{% set ns.k %}__class__{% endset %}{{ x[ns.k] }}"),
    (U, "{% set k %}{% filter replace('-', '_') %}--class--{% endfilter %}{% endset %}{{ x[k] }}"),
    (U, "{% set u = 'x_x'.split('x')[1] %}{% set c = 'class' %}{% set k = u + u + c + u + u %}{{ x[k] }}"),
    (U, "{% set u = bos_token[7] %}{% set c = role %}{% set k = u + u + c + u + u %}{{ x[k] }}"),
    (U, "{% for u in 'a_b' %}{% set k = u + u + c + u + u %}{{ x[k] }}{% endfor %}"),
    (U, "{% for u in 'a_b' %}{{ x[u] }}{% endfor %}"),
    (U, "{% set s = 'emarf_ig' %}{{ x[s[::-1]] }}"),
    (U, "{% for k in {'emarf_ig': 1} %}{{ x[k[::-1]] }}{% endfor %}"),
    (U, "{% set s = 'emarf_ig' %}{% set t = s[::-1] %}{{ x[t] }}"),
    (U, "{{ x['gi_' 'frame'] }}"),
    (U, "{{ x['GI_FRAME'.lower()] }}"),
    (U, "{% set k = 'GI_FRAME' %}{{ x[k.lower()] }}"),
    (U, "{% set k = 'gi-frame' %}{{ x[k.replace('-', '_')] }}"),
    (U, "{% set k = ['gi', 'frame'] %}{{ x[k | join('_')] }}"),
    (U, "{% set k = '%s_%s' %}{{ x[k % ('gi', 'frame')] }}"),
    (U, "{% set k = {'%s_%s': 1} | first %}{{ x[k % ('gi', 'frame')] }}"),
    (U, "{{ x[strftime_now('gi_x')] }}"),
    (U, "{% set f = ['gi_x'] %}{{ x[f[0]] }}"),
    (U, "{% set t = ('gi_', 'frame') | sum(start='') %}{{ x[t] }}"),
    (D, "{%- raw -%}{{ a }}{%- endraw -%}{{ a.__class__ }}"),
    (D, "{{ a }}" * 2000 + "{{ a.__class__ }}"),
    (U, "{{ messages[bos_token][eos_token] }}"),  # which the same directory says
    (U, "{{ x[additional_special_tokens[0]] }}"),
    # special tokens have any name, so what comes from outside may be any text
    (U, "{{ raise_exception[k1]['os'][k2]('id') }}"),
    (U, "{{ raise_exception[k1][k2][k3]('id') }}"),
    (U, "{% for a,b in messages[0].items() %}{{ raise_exception[a][b]('id') }}{% endfor %}"),
    (U, "{{ messages[a][b]('id') }}"),
    (U, "{{ messages[a]['copy']('id') }}"),
    (U, "{{ (messages[a])('id') }}"),
    (U, "{{ f(a)(b) }}"),
    (U, "{{ raise_exception[k1][k2].copy('a', 'b') }}"),
    (U, "{% set g = raise_exception %}{{ g[k] }}"),
    (U, "{{ [raise_exception][0][k].copy(1) }}"),
    (U, "{% set range = messages[k1][k2] %}{{ range('id') }}"),
    (U, "{% for range in [messages[k]] %}{{ range('id') }}{% endfor %}"),
    (U, "{% with range = messages[k] %}{{ range('id') }}{% endwith %}"),
    (U, "{% macro m(range) %}{{ range('id') }}{% endmacro %}{{ m(x[k]) }}"),
    (U, "{% macro f() %}{% endmacro %}{% set f = x[k] %}{{ f(1) }}"),
    (U, "{% macro f() %}{% endmacro %}{{ f[k][l].copy(1) }}"),
    (U, "{% set ns = namespace() %}{{ ns[k1][k2][k3].copy(1) }}"),
    (U, "{% set ns = namespace() %}{% set b = ns %}{{ b[k1].copy(1) }}"),
    (U, "{% for m in x %}{{ loop[k].copy(1) }}{% endfor %}"),
    (U, "{% for m in x %}{% set l = loop %}{{ l[k].copy(1) }}{% endfor %}"),
    (U, "{% macro f(q) %}{{ q[k].copy(1) }}{% endmacro %}{% set ns = namespace() %}{{ f(ns) }}"),
    (
        H,
        "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}{% if raise_exception %}{{ raise_exception('x') }}{% endif %}"
        "{% set ns = namespace(i=0, items=[]) %}{% set ns.i = ns.i + 1 %}{{ messages[ns.i]['role'] }}{{ ns['i'] }}{{ tool[key] }}{{ args[k] | tojson }}"
        "{% for m in messages %}{% set outer = loop %}{{ outer.index0 }}{{ messages[loop.index0 - 1].role.strip() }}{% if (loop.index0 % 2 == 0) != (m['role'] == 'user') %}{% endif %}{% endfor %}"
        "{% macro show(a, b=none) %}{{ a[b] }}{{ caller() }}{% endmacro %}{% call show(ns.items) %}x{% endcall %}{{ show(range(3) | list) }}",
    ),
]

"""Templates: code out of downloaded files. Without these a file can hang, crash or mislead the chat."""

from pathlib import Path

import pytest

from app.chat.message import Message
from app.chat.template import BUILT_IN, Template, named_template
from app.errors import SpecchatError, UsageError

HI = [Message("user", "Hi")]


def render(source: str, messages: list[Message] | None = None) -> str:
    return Template(source, "<s>", "</s>").render(HI if messages is None else messages)


def test_block_tags_leave_no_white_space() -> None:
    """Else: every prompt carries stray newlines that the model never saw in training."""
    source = "{{ bos_token }}\n  {% for m in messages %}\n[{{ m['content'] }}]\n  {% endfor %}\nend\n"
    assert render(source) == "<s>\n[Hi]\nend"


def test_helpers_of_hugging_face_work() -> None:
    """Else: templates of current models fail to render."""
    assert render("{{ {'naïve': '日本'} | tojson }}") == '{"naïve": "日本"}'
    assert render("{{ {'a': [1]} | tojson(indent=2) }}") == '{\n  "a": [\n    1\n  ]\n}'
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == 10
    assert render("{% for m in [1, 2, 3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}") == "1"
    assert render("{% generation %}{{ messages[0].content }}{% endgeneration %}!") == "Hi!"
    assert render("{{ 'tools' if tools is not none else 'none' }}") == "none"
    assert (
        render("{{ 'a' ~ 1 ~ 'b' }}{{ ['x', 'y'] | join(', ') }}{{ 'aba'.replace('a', 'c') }}")
        == "a1bx, ycbc"
    )
    assert render("{{ 'a\nb' | indent(2) }}{{ ', '.join(['x', 'y']) }}{{ 'aa' | replace('a', 'b', 1) }}") == (
        "a\n  bx, yba"
    )


def test_the_clock_stands_still() -> None:
    """Else: a chat that passes midnight prefills everything again."""
    template = Template("{{ strftime_now('%H:%M:%S.%f') }}", "", "")
    assert template.render(HI) == template.render(HI)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('Roles must\nalternate') }}", "refused the conversation: Roles must alternate."),
        ("{{ messages[7].role }}", "no element 7"),
        ("{{ nothing() }}", "'nothing' is undefined"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'x' | no_such_filter }}", "no_such_filter"),
        ("{% if %}", "not valid Jinja .line 1"),
        ("{% for m in messages %}", "not valid Jinja"),
    ],
)
def test_a_failing_template_says_what_it_said_and_what_to_do(source: str, said: str) -> None:
    """Else: a traceback of somebody else's code, and no way on."""
    with pytest.raises(SpecchatError, match=said) as caught:
        render(source)
    assert "--template" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ().__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ raise_exception.__globals__.json.dumps(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    """Else: opening a downloaded model runs its author's code."""
    with pytest.raises(SpecchatError):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ range(1000000000000) | list }}",
    ],
)
def test_an_endless_template_ends(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the app hangs on opening a model."""
    monkeypatch.setattr("app.chat.sandbox.MAX_STEPS", 5_000)
    with pytest.raises(SpecchatError):
        render(source)


GROW = "{%% set ns = namespace(x='aaaa') %%}{%% for i in range(60) %%}{%% set ns.x = %s %%}{%% endfor %%}"


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 99999999999 }}",
        "{{ 'a'.center(99999999999) }}",
        "{{ '{:99999999999}'.format(1) }}",
        "{{ '%99999999999d' % 1 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% for i in range(9999) %}{{ 'x' * 100000 }}{% endfor %}",
        GROW % "ns.x ~ ns.x",
        GROW % "ns.x + ns.x",
        GROW % "ns.x | replace('a', 'aa')",
        GROW % "ns.x.replace('a', 'aa')",
        GROW % "[ns.x, ns.x] | join",
        GROW % "ns.x.join(['', '', ''])",
        "{{ messages | tojson(indent=99999999999) }}",
        "{{ 'a\nb' | indent(99999999999) }}",
    ],
)
def test_a_huge_template_is_stopped_before_the_memory_is_full(source: str) -> None:
    """Else: the whole machine swaps."""
    with pytest.raises(SpecchatError):
        render(source)


SYSTEM = [Message("system", "Be brief."), *HI]


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system.') }}{% endif %}"
        "{{ m.content }}{% endfor %}",
        "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
    ],
    ids=["refuses", "leaves out"],
)
def test_a_system_text_always_reaches_the_model(source: str) -> None:
    """Else: the system prompt ends the chat, or is dropped and nobody is told."""
    assert render(source, SYSTEM) == "Be brief.\n\nHi"


def test_a_template_that_refuses_all_else_says_its_own_reason() -> None:
    """Else: a refusal that has nothing to do with the system role is hidden by the second try."""
    with pytest.raises(SpecchatError, match="Never"):
        render("{{ raise_exception('Never.') }}", SYSTEM)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_templates_render_a_whole_conversation_in_order(name: str) -> None:
    """Else: --template, the way out of every fault above, fails itself."""
    messages = [*SYSTEM, Message("assistant", "Hello."), Message("user", "More?")]
    text = Template(named_template(name), "<s>", "</s>").render(messages)
    places = [text.index(part) for part in ("Be brief.", "Hi", "Hello.", "More?")]
    assert places == sorted(places)
    shorter = Template(named_template(name), "<s>", "</s>").render(messages, add_generation_prompt=False)
    assert text.startswith(shorter)


def test_a_template_may_be_a_file_and_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    """Else: a typing mistake is answered with "file not found"."""
    path = tmp_path / "own.jinja"
    path.write_text("{{ messages }}", encoding="utf-8")
    assert named_template(str(path)) == "{{ messages }}"
    with pytest.raises(UsageError, match="chatml, llama-3, gemma, mistral"):
        named_template("chatlm")
    path.write_bytes(b"\xff\xff")
    with pytest.raises(SpecchatError, match="UTF-8"):
        named_template(str(path))

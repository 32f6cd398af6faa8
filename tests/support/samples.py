"""Texts of many kinds with what the tokenizer o200k_base makes of them, in tokens."""

SAMPLES: dict[str, tuple[str, int]] = {}


def _sample(kind: str, tokens: int, text: str) -> None:
    SAMPLES[kind] = (text, tokens)


_sample(
    "English",
    69,
    "The harbour was quiet when the first boats came in. Nobody had expected them before noon, and the market women "
    "had not yet put up their stalls. A boy ran along the quay and shouted something that the wind carried away. "
    "Later, people would say that they had known at once; in truth, most of them went on drinking their coffee.",
)
_sample(
    "English, a chat",
    81,
    "Hey! How are you? I've been meaning to ask whether you're still up for Saturday's hike. We could leave at 9:30 "
    "and take the bus, or I can drive, it's no problem. Let me know what you think! By the way, did you finish the "
    "book I lent you? I'm curious what you made of the ending, because I didn't get it at all, haha.",
)
_sample(
    "Python",
    91,
    "def load_config(path: Path, *, strict: bool = False) -> dict[str, Any]:\n"
    '    """Return the settings of a file."""\n'
    "    try:\n"
    '        with path.open(encoding="utf-8") as file:\n'
    "            values = json.load(file)\n"
    "    except FileNotFoundError:\n"
    "        if strict:\n"
    "            raise\n"
    "        return {}\n"
    "    return {key.lower(): value for key, value in values.items() if not key.startswith('_')}\n",
)
_sample(
    "TypeScript",
    82,
    "export async function fetchUsers(page = 1): Promise<User[]> {\n"
    "  const response = await fetch(`/api/users?page=${page}`);\n"
    "  if (!response.ok) {\n"
    "    throw new Error(`request failed: ${response.status}`);\n"
    "  }\n"
    "  const { items } = (await response.json()) as Page<User>;\n"
    "  return items.filter((user) => user.isActive && user.lastSeen !== null);\n"
    "}\n",
)
_sample(
    "a tool's definition",
    115,
    '{"type":"tool_schema","name":"create_invoice","description":"Create an invoice for a customer and send it by '
    'e-mail.","input_schema":{"type":"object","properties":{"customer_id":{"type":"string","description":"id of the '
    'customer"},"lines":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"price":'
    '{"type":"number","minimum":0}},"required":["text","price"]}},"due_days":{"type":"integer","default":30}},'
    '"required":["customer_id","lines"],"additionalProperties":false}}',
)
_sample(
    "JSON, indented",
    109,
    '{\n  "id": 48213,\n  "name": "Grace Hopper",\n  "active": true,\n  "balance": 1249.5,\n  "tags": [\n    "vip",\n'
    '    "navy"\n  ],\n  "address": {\n    "street": "Main Street 4",\n    "city": "Arlington",\n    "zip": "22201"\n  },\n'
    '  "created_at": "2025-03-14T09:26:53Z",\n  "parent": null\n}',
)
_sample(
    "German",
    59,
    "Bitte überprüfen Sie Ihre Angaben, bevor Sie fortfahren. Die Änderungen wurden erfolgreich gespeichert und sind "
    "ab sofort für alle Benutzer sichtbar. Falls Sie Ihr Passwort vergessen haben, können Sie es über den Verweis auf "
    "der Anmeldeseite zurücksetzen lassen; die Nachricht trifft gewöhnlich innerhalb weniger Minuten ein.",
)
_sample(
    "Russian",
    58,
    "Пожалуйста, проверьте введённые данные, прежде чем продолжить. Изменения успешно сохранены и теперь видны всем "
    "пользователям. Если вы забыли пароль, его можно сбросить по ссылке на странице входа; письмо обычно приходит "
    "в течение нескольких минут.",
)
_sample(
    "Arabic",
    57,
    "يرجى التحقق من البيانات قبل المتابعة. تم حفظ التغييرات بنجاح وأصبحت مرئية لجميع المستخدمين. إذا نسيت كلمة المرور "
    "يمكنك إعادة تعيينها من خلال الرابط الموجود في صفحة تسجيل الدخول، وتصل الرسالة عادة خلال بضع دقائق.",
)
_sample(
    "Hindi",
    61,
    "कृपया आगे बढ़ने से पहले अपनी जानकारी जाँच लें। परिवर्तन सफलतापूर्वक सहेजे गए हैं और अब सभी उपयोगकर्ताओं को दिखाई देते हैं। "
    "यदि आप अपना पासवर्ड भूल गए हैं, तो उसे लॉगिन पृष्ठ के लिंक से बदल सकते हैं।",
)
_sample(
    "Chinese",
    61,
    "继续之前请先检查您填写的内容。更改已成功保存，现在所有用户都可以看到。如果您忘记了密码，可以通过登录页面上的链接重新设置；"
    "邮件通常会在几分钟内送达。如需帮助，请联系我们的客服人员，我们会尽快回复您的问题。",
)
_sample(
    "Japanese",
    64,
    "続行する前に入力内容をご確認ください。変更は正常に保存され、すべてのユーザーに表示されるようになりました。パスワードをお忘れの場合は、"
    "ログインページのリンクから再設定できます。メールは通常数分以内に届きます。",
)
_sample(
    "Korean",
    58,
    "계속하기 전에 입력한 내용을 확인해 주세요. 변경 사항이 저장되었으며 이제 모든 사용자가 볼 수 있습니다. 비밀번호를 잊으셨다면 "
    "로그인 페이지의 링크에서 다시 설정할 수 있습니다. 메일은 보통 몇 분 안에 도착합니다.",
)
_sample("emoji", 96, "😀😂🥰😊👍🙏🔥🎉🚀😢🤔👀💯😎🙌💪😭🦊🐙🍕🏔🚲🎻🧩🛰🪁" * 2)
_sample(
    "base64",
    131,
    "SGVsbG8gd29ybGQhIFRoaXMgaXMgYSBzaG9ydCB0ZXh0/9j4AAQSkZJRgABAQEAYABgAAD2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoH"
    "BwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRTZwW5kIGl0IGdvZXMgb24gYW5kIG9uIGFuZCBvbiBhZ2Fpbg==",
)
_sample(
    "hexadecimal",
    78,
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
)
_sample(
    "URLs",
    61,
    "https://docs.example.org/en/latest/guides/getting-started.html#install\n"
    "https://github.com/example/project/blob/main/src/project/core/events.py\n"
    "https://api.example.com/v2/users/48213/orders?status=open&limit=50&after=2025-01-31\n",
)
_sample(
    "a Markdown table",
    76,
    "| name | kind | size | changed |\n|---|---|---|---|\n| report.pdf | document | 1.2 MB | 2025-03-14 |\n"
    "| photo.jpeg | image | 840 kB | 2024-11-02 |\n| notes.txt | text | 3 kB | 2025-01-30 |\n",
)
_sample(
    "a log",
    94,
    "2025-03-14 09:26:53,589 [INFO] app.server: started worker 3 in 412 ms\n"
    "2025-03-14 09:26:54,002 [WARNING] db.pool: 17 connections are open, the limit is 20\n"
    "2025-03-14 09:27:11,731 [ERROR] http.client: GET /v1/items returned 503 after 2 retries\n",
)
_sample(
    "white space",
    42,
    "name            count      total\n\n\n    apples           12      14.40\n    pears             3       4.05\n\n\n"
    "        sum          15      18.45\n\t\t\tend\n",
)

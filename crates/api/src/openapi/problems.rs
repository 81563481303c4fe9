//! The page behind the `type` of every problem: each code, its meaning and its fix.
//!
//! Built once from docs/reference/problems.md, of which it knows headings and paragraphs with
//! inline code.

use std::fmt::Write as _;
use std::sync::LazyLock;

use actix_web::HttpResponse;

pub(crate) const TEXT: &str = include_str!("../../../../docs/reference/problems.md");

static PAGE: LazyLock<String> = LazyLock::new(|| html(TEXT));

/// `GET /api/docs/problems`
pub(crate) async fn problems() -> HttpResponse {
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(PAGE.as_str())
}

fn html(text: &str) -> String {
    let mut page =
        String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Problems</title>\n");
    for block in text.split("\n\n") {
        let block = inline(block.trim());
        // Writing to a string cannot fail.
        let _written = if let Some(code) = block.strip_prefix("## ") {
            writeln!(page, "<h2 id=\"{code}\">{code}</h2>")
        } else if let Some(title) = block.strip_prefix("# ") {
            writeln!(page, "<h1>{title}</h1>")
        } else {
            writeln!(page, "<p>{block}</p>")
        };
    }
    page.push_str("</html>\n");
    page
}

fn inline(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let marked = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_an_anchor_of_the_page() {
        let page = html(TEXT);
        assert!(page.contains("<h2 id=\"version_mismatch\">version_mismatch</h2>"), "{page}");
        assert_eq!(page.matches("<h2 ").count(), TEXT.matches("\n## ").count());
        assert!(page.contains("<code>If-Match</code>") && !page.contains('`'), "{page}");
        assert_eq!(inline("<a> & \"b\""), "&lt;a&gt; &amp; &quot;b&quot;");
    }
}

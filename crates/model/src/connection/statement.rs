//! Statements that the query builder cannot express, as query nodes with a static identity.
//!
//! `diesel::sql_query` prepares its text at every execution; a node with a static identity is
//! prepared once per connection. The text is one `.sql` file, or several in sequence when
//! statements share a beginning (`after`) or an end (`before`): an index cannot serve a
//! parameterized sort order. Each parameter `$1`, `$2`, … occurs exactly once and in order, because
//! the driver numbers them so. A statement that needs one twice names it in its first `WITH`.

/// One column of rows, as the parameter of a statement.
pub(crate) fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Declares a statement: its parameters in order, and the SQL types of its columns. `after` and
/// `before` name texts that other statements share.
macro_rules! statement {
    (
        $(#[$meta:meta])*
        $name:ident $(<$lt:lifetime>)? = $file:literal $(after $($head:literal)+)? $(before $($tail:literal)+)?,
        ($($field:ident: $ty:ty as $sql:ty),* $(,)?) -> $columns:ty
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        struct $name $(<$lt>)? { $($field: $ty),* }

        impl $(<$lt>)? diesel::query_builder::QueryId for $name $(<$lt>)? {
            // One prepared statement serves all parameters.
            type QueryId = statement!(@erased $name $(, $lt)?);
            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl $(<$lt>)? diesel::query_builder::Query for $name $(<$lt>)? {
            type SqlType = $columns;
        }

        impl<$($lt,)? C> diesel::RunQueryDsl<C> for $name $(<$lt>)? {}

        impl $(<$lt>)? diesel::query_builder::QueryFragment<diesel::pg::Pg> for $name $(<$lt>)? {
            fn walk_ast<'b>(
                &'b self,
                mut out: diesel::query_builder::AstPass<'_, 'b, diesel::pg::Pg>,
            ) -> diesel::QueryResult<()> {
                let text = concat!(
                    $($(include_str!($head),)+)?
                    include_str!($file),
                    $($(include_str!($tail),)+)?
                );
                let files = &[$($($head,)+)? $file $($(, $tail)+)?];
                let text = $crate::connection::statement::Pieces::new($crate::fault_injection::statement(files, text));
                $(
                    let (before, text) = text.at_next_parameter()?;
                    out.push_sql(before);
                    out.push_bind_param::<$sql, _>(&self.$field)?;
                )*
                out.push_sql(text.rest()?);
                Ok(())
            }
        }
    };
    (@erased $name:ident) => { $name };
    (@erased $name:ident, $lt:lifetime) => { $name<'static> };
}

#[derive(Debug)]
pub(crate) struct Pieces {
    rest: &'static str,
    parameters: usize,
}

impl Pieces {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { rest: text.trim_end(), parameters: 0 }
    }

    /// The text up to the next parameter, and the rest.
    pub(crate) fn at_next_parameter(self) -> diesel::QueryResult<(&'static str, Self)> {
        let parameters = self.parameters + 1;
        let name = format!("${parameters}");
        let (before, rest) = self
            .rest
            .split_once(name.as_str())
            .ok_or_else(|| malformed(format!("parameter {name} is missing or out of order")))?;
        check_no_parameter(before)?;
        Ok((before, Self { rest, parameters }))
    }

    pub(crate) fn rest(self) -> diesel::QueryResult<&'static str> {
        check_no_parameter(self.rest)?;
        Ok(self.rest)
    }
}

fn check_no_parameter(text: &str) -> diesel::QueryResult<()> {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '$' && characters.peek().is_some_and(char::is_ascii_digit) {
            return Err(malformed(format!("unexpected parameter in {text:?}")));
        }
    }
    Ok(())
}

fn malformed(message: String) -> diesel::result::Error {
    diesel::result::Error::QueryBuilderError(message.into())
}

#[cfg(test)]
mod tests {
    use super::Pieces;

    #[test]
    fn text_is_cut_at_parameters_in_order() {
        let (first, pieces) = Pieces::new("SELECT $1, $2::text\n").at_next_parameter().unwrap();
        let (second, pieces) = pieces.at_next_parameter().unwrap();
        assert_eq!([first, second, pieces.rest().unwrap()], ["SELECT ", ", ", "::text"]);
    }

    #[test]
    fn repeated_missing_and_superfluous_parameters_are_refused() {
        let (_, repeated) = Pieces::new("SELECT $1, $1").at_next_parameter().unwrap();
        assert!(repeated.rest().is_err());
        assert!(Pieces::new("SELECT 1").at_next_parameter().is_err());
        assert!(Pieces::new("SELECT $2, $1").at_next_parameter().is_err());
    }
}

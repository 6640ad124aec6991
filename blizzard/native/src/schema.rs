//! From the description of a schema to empty columns.

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};

use crate::block::BlockParser;
use crate::columns::{Bits, Bytes, Coercions, Column, Offsets, Values};
use crate::fields::{Fields, Names};
use crate::record::Policy;
use crate::times::parse_format;
use crate::undeclared::Undeclared;
use crate::variant;

/// A column, or what an array or a map holds. Python makes these from a Delta schema and a policy.
#[derive(Debug, Clone, Default, pyo3::FromPyObject)]
pub struct Node {
    /// `long`, `string`, …, `variant`, `struct`, `array`, `map`.
    pub kind: String,
    pub nullable: bool,
    pub precision: u8,
    pub scale: i8,
    pub coerce: Vec<String>,
    pub formats: Vec<String>,
    /// Of a struct: which column a key means as it is written (-1: none), and which in small letters.
    pub exact: Vec<(String, i64)>,
    pub folded: Vec<(String, i64)>,
    /// Whether a key is also turned into snake case to find its column.
    pub snake: bool,
    /// The columns of a struct, the element of an array, the value of a map.
    pub children: Vec<Node>,
    pub path: Vec<String>,
}

/// The parser, and the paths of its timestamps in the order of their numbers. None: the schema has what it cannot read.
pub fn make_parser(root: &Node, policy: Policy, deepest: usize) -> Option<(BlockParser, Vec<Vec<String>>)> {
    let mut maker = Maker { undeclared: Undeclared::new(deepest), timestamps: Vec::new() };
    let fields = maker.fields(root)?;
    let parser = BlockParser::new(fields, policy, maker.undeclared, maker.timestamps.len());
    Some((parser, maker.timestamps))
}

struct Maker {
    undeclared: Undeclared,
    timestamps: Vec<Vec<String>>,
}

impl Maker {
    fn fields(&mut self, node: &Node) -> Option<Fields> {
        let place = self.undeclared.add_place(node.path.clone());
        let columns: Option<Vec<Column>> = node.children.iter().map(|child| self.column(child)).collect();
        let names = Names::new(&node.exact, &node.folded, node.snake);
        Some(Fields::new(columns?, names, place))
    }

    fn column(&mut self, node: &Node) -> Option<Column> {
        let (data_type, values) = match node.kind.as_str() {
            "byte" => (DataType::Int8, Values::Int8(vec![])),
            "short" => (DataType::Int16, Values::Int16(vec![])),
            "integer" => (DataType::Int32, Values::Int32(vec![])),
            "long" => (DataType::Int64, Values::Int64(vec![])),
            "float" => (DataType::Float32, Values::Float(vec![])),
            "double" => (DataType::Float64, Values::Double(vec![])),
            "decimal" => (DataType::Decimal128(node.precision, node.scale), Values::Decimal(vec![])),
            "boolean" => (DataType::Boolean, Values::Boolean(Bits::default())),
            "string" => (DataType::Utf8, Values::Text(Bytes::default())),
            "binary" => (DataType::Binary, Values::Binary(Bytes::default())),
            "date" => (DataType::Date32, Values::Date(vec![])),
            "timestamp" => {
                let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
                (utc, Values::Timestamp(vec![]))
            }
            "timestamp_ntz" => (DataType::Timestamp(TimeUnit::Microsecond, None), Values::Timestamp(vec![])),
            "struct" => self.of_struct(node)?,
            "array" => self.of_array(node)?,
            "map" => self.of_map(node)?,
            "variant" => (variant::data_type(), Values::Variant(Box::default())),
            _ => return None,
        };
        let mut column = Column::new(data_type, node.nullable, values);
        column.coercions = coercions(&node.coerce);
        column.formats = node.formats.iter().map(|name| parse_format(name)).collect::<Option<_>>()?;
        if matches!(column.values, Values::Timestamp(_)) {
            column.cut_id = self.timestamps.len() as u32;
            self.timestamps.push(node.path.clone());
        }
        Some(column)
    }

    fn of_struct(&mut self, node: &Node) -> Option<(DataType, Values)> {
        let fields = self.fields(node)?;
        let types = fields.columns.iter().map(|column| Field::new("", column.data_type.clone(), column.nullable));
        Some((DataType::Struct(types.collect()), Values::Struct(Box::new(fields))))
    }

    fn of_array(&mut self, node: &Node) -> Option<(DataType, Values)> {
        let element = self.column(node.children.first()?)?;
        let data_type = DataType::List(Arc::new(Field::new("element", element.data_type.clone(), element.nullable)));
        Some((data_type, Values::List { offsets: Offsets::default(), element: Box::new(element) }))
    }

    fn of_map(&mut self, node: &Node) -> Option<(DataType, Values)> {
        let value = self.column(node.children.first()?)?;
        let fields = vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", value.data_type.clone(), value.nullable),
        ];
        let entries = Field::new("entries", DataType::Struct(fields.into()), false);
        let (offsets, keys) = (Offsets::default(), Bytes::default());
        Some((DataType::Map(Arc::new(entries), false), Values::Map { offsets, keys, value: Box::new(value) }))
    }
}

fn coercions(names: &[String]) -> Coercions {
    let has = |name: &str| names.iter().any(|other| other == name);
    Coercions {
        numbers_in_strings: has("numbers_in_strings"),
        integral_floats: has("integral_floats"),
        booleans_0_1: has("booleans_0_1"),
        empty_is_null: has("empty_is_null"),
        parse_json_text: has("parse_json_text"),
    }
}
